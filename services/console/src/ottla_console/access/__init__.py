"""Who may do what: sign-in, sessions, guarded and audited actions."""
