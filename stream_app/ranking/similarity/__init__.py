"""Lists by how items go together: Slope One and cosine, plain and damped."""
