"""What a web server needs that strangers reach: a listener, limits of its connections, the names it
serves, and the form of its refusals."""

NOT_UNDERSTOOD = "the request is not understood"
