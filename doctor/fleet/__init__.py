"""Several nodes: who takes part, how they meet, and what differs between them.

The user's launcher starts one doctor per node, and torch's TCPStore carries the messages.
`member` reads which node this is, `messages` seals and verifies, `store` holds the processes that
talk to the store, `meeting` is the conversation. No network protocol of our own.
"""
