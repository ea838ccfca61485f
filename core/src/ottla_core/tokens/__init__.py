"""Bearer tokens (JSON Web Tokens): keys that sign them, and what they have to say; for brokers and workers."""
