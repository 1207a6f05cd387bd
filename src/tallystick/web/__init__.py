"""The HTTP door of a service: it reads requests, asks the keeper, and words the answers. It holds no data."""
