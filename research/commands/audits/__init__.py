"""What `murmurec audit` computes and shows."""
