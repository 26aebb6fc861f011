"""What is debited from budgets that logs on the broker hold."""
