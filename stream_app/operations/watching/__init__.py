"""What is wrong with a running deployment, and what its members say of themselves."""
