"""/docs: the contract as one page for people, made on the server, without scripts."""
