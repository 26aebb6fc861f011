"""`murmurec ask`: what is asked, over which transport, and how the answer is printed."""
