//! Built-in tool `message`: to the channels that the operator declares, and to no other.

use claw_tool::{ToolError, channels};

/// The longest name of a conversation: what the host takes.
const CHAT_ID_BYTES_MAX: usize = 256;
/// The longest text: what the host takes.
const CONTENT_BYTES_MAX: usize = 16_384;

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
    check(args).map_err(ToolError::invalid_args)?;
    channels::send(&args.channel, &args.chat_id, &args.content)?;
    let Message { channel, chat_id, .. } = args;
    Ok(Queued { channel: channel.clone(), chat_id: chat_id.clone(), status: "queued" })
}

fn check(args: &Message) -> Result<(), String> {
    if args.content.trim().is_empty() {
        return Err("content is blank; there is nothing to send".to_owned());
    }
    let texts = [
        ("content", &args.content, CONTENT_BYTES_MAX),
        ("chat_id", &args.chat_id, CHAT_ID_BYTES_MAX),
    ];
    match texts.into_iter().find(|(_, text, most)| text.len() > *most) {
        Some((what, text, most)) => {
            Err(format!("`{what}` has {} bytes; the most is {most}", text.len()))
        }
        None => Ok(()),
    }
}

claw_tool::export! {
    /// Sends a message to a conversation of a channel that this host's operator has declared; a
    /// wrong channel's error names those there are. The answer says that the message was taken,
    /// not that somebody has read it.
    message [additive, open_world],
}
