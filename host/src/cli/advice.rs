//! What is meant by a command line that is none: verbs as other programs have them, and arguments of a tool
//! that are written like options.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Verbs of other programs, and what to write here.
const ELSEWHERE: [(&str, &str); 15] = [
    (
        "add",
        "write 'clawhost import' for servers of an MCP client, 'clawhost pull' for a component",
    ),
    ("check", "write 'clawhost validate'"),
    ("exec", "write 'clawhost call'"),
    ("history", "write 'clawhost audit'"),
    ("init", "write 'clawhost import' for servers of an MCP client, 'clawhost new' for a tool"),
    ("lint", "write 'clawhost validate'"),
    ("list", "write 'clawhost tools'"),
    ("log", "write 'clawhost audit'"),
    ("logs", "write 'clawhost audit'"),
    ("ls", "write 'clawhost tools'"),
    ("policy", "write 'clawhost explain'"),
    ("serve", "write 'clawhost run'"),
    ("start", "write 'clawhost run'"),
    ("status", "write 'clawhost doctor' for this machine, 'clawhost tools' for what is served"),
    ("version", "write 'clawhost --version'"),
];

/// Verbs that are given the arguments of a tool.
const WITH_ARGUMENTS: [&str; 3] = ["call", "explain", "learn"];
/// The verb that is given a command line.
const WITH_A_COMMAND: &str = "wrap";

/// Returns what is wrong with the command line of these words, with what is probably meant.
pub(super) fn advised(mut error: Error, words: &[String]) -> Error {
    let verb = words.iter().skip(1).find(|word| !word.starts_with('-'));
    let verb = verb.map(String::as_str).unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let ours = ELSEWHERE.iter().find(|(theirs, _)| *theirs == verb);
            if let Some(tip) = ours.map(|(_, tip)| *tip) {
                error.remove(ContextKind::SuggestedSubcommand);
                suggest(&mut error, tip);
            }
        }
        ErrorKind::UnknownArgument if wants_a_value(&error) && verb != WITH_A_COMMAND => {
            error.remove(ContextKind::Suggested);
            if WITH_ARGUMENTS.contains(&verb) {
                suggest(&mut error, "arguments of a tool are written NAME=VALUE");
            }
        }
        _ => {}
    }
    error
}

/// Says whether the advice is to make the unknown option a value, which nobody means.
fn wants_a_value(error: &Error) -> bool {
    let Some(ContextValue::StyledStrs(tips)) = error.get(ContextKind::Suggested) else {
        return false;
    };
    tips.iter().any(|tip| tip.to_string().starts_with("to pass "))
}

fn suggest(error: &mut Error, tip: &'static str) {
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::super::args::Cli;
    use super::*;

    fn told(words: &[&str]) -> String {
        let words: Vec<String> =
            [&["clawhost"][..], words].concat().into_iter().map(str::to_owned).collect();
        advised(Cli::try_parse_from(&words).unwrap_err(), &words).to_string()
    }

    #[test]
    fn a_verb_of_another_program_is_told_as_ours() {
        for verb in ["serve", "start"] {
            let said = told(&["-v", verb]);
            assert!(
                said.contains("tip: write 'clawhost run'") && !said.contains("similar"),
                "{said}"
            );
        }
        assert!(told(&["valdate"]).contains("'validate'"));
        let command = Cli::command();
        let is_verb = |name: &str| command.find_subcommand(name).is_some();
        for (theirs, tip) in ELSEWHERE {
            assert!(!is_verb(theirs), "{theirs}");
            let named = tip.split("'clawhost ").skip(1).filter_map(|rest| rest.split('\'').next());
            assert!(named.filter(|name| !name.starts_with('-')).all(is_verb), "{tip}");
        }
    }

    #[test]
    fn an_argument_that_is_written_as_an_option_is_told_how_it_is_written() {
        let said = told(&["call", "claw.yaml", "read_file", "--path", "a"]);
        assert!(said.contains("tip: arguments of a tool are written NAME=VALUE"), "{said}");
        assert!(!told(&["run", "--port", "80"]).contains("tip:"));
        assert!(told(&["--config", "x", "run"]).contains("'run --config' exists"));
    }
}
