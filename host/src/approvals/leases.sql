CREATE TABLE leases (
    id TEXT PRIMARY KEY, principal TEXT NOT NULL, tool TEXT NOT NULL, tool_digest TEXT NOT NULL,
    covers TEXT NOT NULL, granted_by TEXT NOT NULL, granted_at_ms INTEGER NOT NULL,
    ends_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX leases_of ON leases (principal, tool, tool_digest);
