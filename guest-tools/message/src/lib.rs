//! Built-in tool `message`: to the channels that the operator declares, and to no other.

use claw_tool::{ToolError, channels};

/// Arguments of `message`.
#[claw_tool::input]
struct Message {
    /// The channel, by the name it is declared under.
    channel: String,
    /// The conversation in it: whatever the channel calls one, at most 256 bytes.
    chat_id: String,
    /// The text, at most 16,384 bytes.
    content: String,
}

/// What became of it.
#[claw_tool::output]
struct Queued {
    /// The channel.
    channel: String,
    /// The conversation.
    chat_id: String,
    /// Always "queued": it is sent after this answer, and tried again for a while.
    status: &'static str,
}

fn message(args: &Message) -> Result<Queued, ToolError> {
    if args.content.trim().is_empty() {
        return Err(ToolError::invalid_args("content is blank; there is nothing to send"));
    }
    channels::send(&args.channel, &args.chat_id, &args.content)?;
    let Message { channel, chat_id, .. } = args;
    Ok(Queued { channel: channel.clone(), chat_id: chat_id.clone(), status: "queued" })
}

claw_tool::export! {
    /// Sends a message to a conversation of a channel that this host's operator has declared; a
    /// wrong channel's error names those there are. The answer says that the message was taken,
    /// not that somebody has read it.
    message [additive, open_world],
}
