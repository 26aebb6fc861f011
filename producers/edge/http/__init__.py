"""The interface of an edge: HTTP for the site's own programs, and a page for its people.

contract           every endpoint as data: routes, checks, and the OpenAPI document of it
site               what the views are made from
*_views            the views, by what they are about
edge_serving       listens until a signal

The site's programs call it, not the browsers of its visitors: it takes user ids in clear and has
no sign-in of users. All but the probes and the page's files asks for the token, if there is one.
"""
