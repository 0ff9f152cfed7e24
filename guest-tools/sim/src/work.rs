//! Simulated tools about the work around an outage: tickets, research, pull requests, chat.

use claw_tool::ToolError;

use crate::Dice;

/// Arguments of `sim_ticket_read`.
#[claw_tool::input]
pub(crate) struct TicketId {
    /// The ticket's id, for example "OPS-1234".
    ticket_id: String,
}

/// A ticket.
#[claw_tool::output]
pub(crate) struct Ticket {
    /// Always true.
    simulated: bool,
    /// Its id.
    ticket_id: String,
    /// What it is about.
    title: String,
    /// "open", "in progress" or "waiting".
    status: String,
    /// "P1", "P2" or "P3".
    priority: String,
    /// The service it is about.
    service: String,
    /// What was written into it.
    comments: Vec<String>,
}

pub(crate) fn sim_ticket_read(args: &TicketId) -> Result<Ticket, ToolError> {
    let mut dice = Dice::of(&[&args.ticket_id]);
    let service = dice.pick(&["checkout", "search", "billing", "login"]);
    let symptom =
        dice.pick(&["answers slowly", "fails every tenth request", "restarts every hour"]);
    Ok(Ticket {
        simulated: true,
        ticket_id: args.ticket_id.clone(),
        title: format!("{service} {symptom}"),
        status: dice.pick(&["open", "in progress", "waiting"]),
        priority: dice.pick(&["P1", "P2", "P3"]),
        comments: vec![
            format!("It began with the release {}.", dice.commit()),
            "A restart helps for a while.".to_owned(),
        ],
        service,
    })
}

/// Arguments of `sim_runtime_research`.
#[claw_tool::input]
pub(crate) struct Research {
    /// The service, for example "checkout".
    service: String,
    /// What is to be found out.
    question: String,
}

/// What a service does while it runs.
#[claw_tool::output]
pub(crate) struct Observations {
    /// Always true.
    simulated: bool,
    /// The service.
    service: String,
    /// The answer to the question, in a sentence.
    summary: String,
    /// The 95th percentile of its answers' times, in milliseconds.
    p95_ms: u32,
    /// Requests that fail, in a thousand.
    errors_per_thousand: u32,
    /// Memory in use, in percent of the limit.
    memory_percent: u32,
}

pub(crate) fn sim_runtime_research(args: &Research) -> Result<Observations, ToolError> {
    let mut dice = Dice::of(&[&args.service, &args.question]);
    let (p95_ms, errors_per_thousand) = (50 + dice.below(2_000), dice.below(100));
    let memory_percent = 30 + dice.below(70);
    let service = args.service.clone();
    let narrow = if memory_percent > 85 { "memory is short" } else { "memory is not the problem" };
    let summary = format!("{service} takes {p95_ms} ms for the slowest twentieth; {narrow}.");
    Ok(Observations {
        simulated: true,
        service,
        summary,
        p95_ms,
        errors_per_thousand,
        memory_percent,
    })
}

/// Arguments of `sim_git_pr`.
#[claw_tool::input]
pub(crate) struct PullRequest {
    /// The repository, for example "shop/checkout".
    repository: String,
    /// The title.
    title: String,
    /// The branch that is to be merged; made from the title where it is not said.
    #[serde(default)]
    branch: Option<String>,
    /// The description.
    #[serde(default)]
    body: Option<String>,
}

/// A pull request.
#[claw_tool::output]
pub(crate) struct Opened {
    /// Always true.
    simulated: bool,
    /// Its number.
    number: u32,
    /// An address that does not exist.
    url: String,
    /// The branch that is to be merged.
    branch: String,
    /// Characters of the description.
    body_chars: usize,
}

pub(crate) fn sim_git_pr(args: &PullRequest) -> Result<Opened, ToolError> {
    if args.title.trim().is_empty() {
        return Err(ToolError::invalid_args("title is blank; say what the change is"));
    }
    let number = 1 + Dice::of(&[&args.repository, &args.title]).below(9_999);
    let repository = &args.repository;
    Ok(Opened {
        simulated: true,
        number,
        // A name that is set aside for examples (RFC 2606).
        url: format!("https://git.example/{repository}/pulls/{number}"),
        branch: args.branch.clone().unwrap_or_else(|| branch_of(&args.title)),
        body_chars: args.body.as_deref().unwrap_or_default().chars().count(),
    })
}

fn branch_of(title: &str) -> String {
    let words = title.to_lowercase();
    let words = words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.take(6).collect::<Vec<_>>().join("-")
}

/// Arguments of `sim_teams_post`.
#[claw_tool::input]
pub(crate) struct Post {
    /// The channel, for example "incidents".
    channel: String,
    /// The text.
    message: String,
}

/// What became of a post.
#[claw_tool::output]
pub(crate) struct Posted {
    /// Always true.
    simulated: bool,
    /// The channel.
    channel: String,
    /// The post's id.
    message_id: String,
    /// Characters of the text.
    chars: usize,
}

pub(crate) fn sim_teams_post(args: &Post) -> Result<Posted, ToolError> {
    if args.message.trim().is_empty() {
        return Err(ToolError::invalid_args("message is blank; there is nothing to post"));
    }
    Ok(Posted {
        simulated: true,
        channel: args.channel.clone(),
        message_id: Dice::of(&[&args.channel, &args.message]).commit(),
        chars: args.message.chars().count(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_made_of_the_title_and_blank_ones_are_refused() {
        assert_eq!(branch_of("Raise the memory limit (again)!"), "raise-the-memory-limit-again");
        let request = |title: &str| PullRequest {
            repository: "shop/checkout".to_owned(),
            title: title.to_owned(),
            branch: None,
            body: None,
        };
        assert!(sim_git_pr(&request(" ")).is_err());
        let opened = sim_git_pr(&request("Fix it")).unwrap();
        assert!(opened.simulated && opened.url.starts_with("https://git.example/"));
    }

    #[test]
    fn a_ticket_is_the_same_each_time() {
        let read = || sim_ticket_read(&TicketId { ticket_id: "OPS-1".to_owned() }).unwrap();
        assert_eq!((read().title, read().status), (read().title, read().status));
        let blank = Post { channel: "c".to_owned(), message: String::new() };
        assert!(sim_teams_post(&blank).is_err());
    }
}
