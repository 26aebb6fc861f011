"""The model of the trainers whose guarantee is that of their noise."""
