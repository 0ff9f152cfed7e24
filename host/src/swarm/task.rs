//! What goes through a swarm: tasks, reports, messages.

use std::sync::Arc;

use serde_json::Value;

/// A value that waits for whom it is for, as its text: many small parts would take twenty times as much. All that
/// wait for the same one share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptValue(Arc<str>);

impl KeptValue {
    /// Returns it as it was given.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// Returns how long it is as JSON, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}

impl From<&Value> for KeptValue {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

/// Work that one agent gives to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// What the one who gives it calls it; unique among all tasks of the host that have not ended.
    pub task_id: String,
    /// The swarm it is for.
    pub swarm: String,
    /// What to do.
    pub description: Arc<str>,
    /// What to do it with.
    pub input: Option<KeptValue>,
}

impl Task {
    /// Returns how long what it says is, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.description.len() + self.input.as_ref().map_or(0, KeptValue::bytes)
    }
}

/// What became of a task, or is becoming of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Which task.
    pub task_id: String,
    /// How it stands.
    pub status: Status,
    /// What came of it.
    pub result: KeptValue,
    /// Tokens that were spent.
    pub token_usage: Option<u64>,
    /// Time that was spent, in milliseconds, as the agent says.
    pub duration_ms: Option<u64>,
}

/// How a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It is done.
    Completed,
    /// It cannot be done.
    Failed,
    /// Some of it is done; more reports will come.
    Partial,
}

clawhost_core::table! {
    /// Returns the name on the wire.
    pub ALL, pub Status::name: &'static str {
        Completed: "completed", Failed: "failed", Partial: "partial",
    }
}

impl Status {
    /// Reads the name on the wire.
    pub fn read(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == name)
    }
}

/// Something that a member of a swarm has to know.
#[derive(Debug, Clone, PartialEq)]
pub enum SwarmEvent {
    /// Somebody says something to everybody.
    Message {
        /// In which swarm.
        swarm: String,
        /// Who.
        from: String,
        /// What.
        message: KeptValue,
    },
    /// Events were dropped, since they were not taken in time.
    Missed(u64),
    /// A task that this one gave stands otherwise than before; or a task this one has was ended
    /// by somebody else.
    Report {
        /// In which swarm.
        swarm: String,
        /// Who says so; the host where nobody did in time.
        from: String,
        /// What they say.
        report: Report,
    },
    /// A task for this one.
    Task {
        /// Who gives it.
        from: String,
        /// The task.
        task: Task,
    },
}

impl SwarmEvent {
    /// Returns how many bytes wait with it alone: a task is held anyway, until it ends.
    pub(super) fn own_bytes(&self) -> usize {
        match self {
            Self::Message { message, .. } => message.bytes(),
            Self::Report { report, .. } => report.result.bytes(),
            Self::Missed(_) | Self::Task { .. } => 0,
        }
    }
}

/// An agent of a swarm, as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The name of its identity.
    pub identity: String,
    /// `claw://local/identity/<name>`.
    pub uri: String,
    /// Whether it takes work now.
    pub status: PeerStatus,
}

/// Whether an agent takes work now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerStatus {
    /// It has as much as it can.
    Busy,
    /// It does.
    Ready,
    /// It is not connected.
    Unavailable,
}

clawhost_core::table! {
    /// Returns the name on the wire.
    pub PeerStatus::name: &'static str {
        Busy: "busy", Ready: "ready", Unavailable: "unavailable",
    }
}
