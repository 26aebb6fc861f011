"""Systems of the papers that are measured and not served, and the commands that show them.

Nothing outside imports this package; what the public commands need of it is loaded by name, in
`murmurec.common`. A worker, a device, a gateway and a reader run without it.
"""
