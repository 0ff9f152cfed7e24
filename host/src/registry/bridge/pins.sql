-- What MCP servers said about their tools: what the operator, or the first sight, accepted, and what they say now.
CREATE TABLE pins (
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    accepted TEXT,
    offered TEXT NOT NULL,
    changed_at_ms INTEGER NOT NULL,
    PRIMARY KEY (server, tool)
) STRICT;
