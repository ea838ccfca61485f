"""Who did what: the audit log of a broker.

What is recorded: everything that access control lists refused; every request that changes the cluster, with its
result; on request, which topics clients write and read. `audit_log` takes records and bounds them, `audit_sinks`
writes them.
"""
