//! `set` and what it switches.

use std::rc::Rc;

use super::{Options, Shell};
use crate::stop::{Done, usage};

impl Options {
    /// What `$-` is.
    pub(crate) fn letters(self) -> String {
        let all = [
            ('e', self.exit_on_error),
            ('u', self.unset_is_error),
            ('x', self.trace),
            ('f', self.no_glob),
        ];
        all.iter().filter(|(_, on)| *on).map(|(letter, _)| letter).collect()
    }

    fn switch(&mut self, letter: char, on: bool) -> bool {
        match letter {
            'e' => self.exit_on_error = on,
            'u' => self.unset_is_error = on,
            'x' => self.trace = on,
            'f' => self.no_glob = on,
            _ => return false,
        }
        true
    }
}

fn letter(name: &str) -> char {
    match name {
        "errexit" => 'e',
        "nounset" => 'u',
        "xtrace" => 'x',
        "noglob" => 'f',
        _ => '?',
    }
}

pub(super) fn set(shell: &mut Shell, arguments: &[String]) -> Done {
    if arguments.is_empty() {
        let lines: Vec<String> = shell
            .state
            .variables
            .iter()
            .filter_map(|(name, v)| v.value.as_ref().map(|value| (name, value)))
            .map(|(name, value)| format!("{name}='{}'", value.replace('\'', "'\\''")))
            .collect();
        for line in lines {
            shell.line(&line)?;
        }
        return Ok(0);
    }
    let mut rest = arguments.iter();
    while let Some(argument) = rest.as_slice().first() {
        let on = argument.starts_with('-');
        if argument == "--" {
            rest.next();
            shell.state.parameters = Rc::new(rest.cloned().collect());
            return Ok(0);
        }
        if argument.len() < 2 || !(on || argument.starts_with('+')) {
            shell.state.parameters = Rc::new(rest.cloned().collect());
            return Ok(0);
        }
        rest.next();
        for c in argument.chars().skip(1) {
            let c = if c == 'o' { rest.next().map_or('?', |name| letter(name)) } else { c };
            if !shell.state.options.switch(c, on) {
                return usage(format!("{argument}: only -e, -f, -u and -x can be set"));
            }
        }
    }
    Ok(0)
}
