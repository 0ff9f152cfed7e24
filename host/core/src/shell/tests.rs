//! Which lines run, and as what; which do not. What runs is read by no shell here: that is for
//! the tests of the jail.

use std::path::{Path, PathBuf};

use super::*;
use crate::grants::Shell;
use crate::limits::SHELL_COMMANDS_MAX;

/// A machine with one folder of programs, and links to it.
fn find(name: &str) -> Option<PathBuf> {
    const THERE: [&str; 14] = [
        "[", "bash", "cat", "curl", "diff", "echo", "env", "file", "find", "git", "ls", "rm",
        "sed", "sort",
    ];
    let base = match name.rsplit_once('/') {
        None => name,
        Some(("/bin" | "/usr/bin", base)) => base,
        Some(("/elsewhere", "ls")) => return Some("/elsewhere/ls".into()),
        Some(_) => return None,
    };
    THERE.contains(&base).then(|| Path::new("/usr/bin").join(base))
}

const MACHINE: Machine<'static> = Machine { find: &find, is_over: &|| false };

fn policy(rules: &ShellRules) -> ShellPolicy {
    ShellPolicy::new(&Shell::Restricted, rules).unwrap()
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

fn line(line: &str) -> Result<String, String> {
    let policy = policy(&ShellRules::default());
    policy.line(line, &[Path::new("/work")], MACHINE).map_err(|refusal| refusal.to_string())
}

#[test]
fn a_line_is_written_anew_from_what_was_understood() {
    for (given, runs) in [
        ("ls", "'/usr/bin/ls'"),
        ("/bin/ls  -l\t a", "'/usr/bin/ls' '-l' 'a'"),
        ("ls *.rs | sort -r", "'/usr/bin/ls' *'.rs' | '/usr/bin/sort' '-r'"),
        ("ls [a-c]?x; ls [", "'/usr/bin/ls' [a-c]?'x'; '/usr/bin/ls' '['"),
        (
            "cat a && ! cat b || echo 'it''s' \"\\$5\";",
            "'/usr/bin/cat' 'a' && ! '/usr/bin/cat' 'b' || '/usr/bin/echo' 'it''s' '$5'",
        ),
        (
            "cat < in 2>&1 >> /work/out 2>/dev/null",
            "'/usr/bin/cat' <'in' 2>&1 >>'/work/out' 2>'/dev/null'",
        ),
        ("cd sub && ls", "'cd' '--' 'sub' && '/usr/bin/ls'"),
        ("sed -n 1p f", "'/usr/bin/sed' '--sandbox' '-n' '1p' 'f'"),
        ("find . -name '*.rs'", "'/usr/bin/find' '.' '-name' '*.rs'"),
        (r#"echo "a\b" c\ d "it's""#, r#"'/usr/bin/echo' 'a\b' 'c d' 'it'\''s'"#),
        ("echo '$(id)' \"`\"", ""),
        ("echo '$(id) `id` & | ;'", "'/usr/bin/echo' '$(id) `id` & | ;'"),
        ("echo 'a\nb'", "'/usr/bin/echo' 'a\nb'"),
        ("[ -f x ]", "'/usr/bin/[' '-f' 'x' ']'"),
        ("echo a#b 2 >f", "'/usr/bin/echo' 'a#b' '2' >'f'"),
        // Quoted, it is no stream's number, and `!` is a program.
        ("echo 2''>f", "'/usr/bin/echo' '2''' >'f'"),
        ("!'' ls", ""),
    ] {
        match line(given) {
            Ok(text) => assert_eq!(text, runs, "{given}"),
            Err(why) => assert_eq!(runs, "", "{given}: {why}"),
        }
    }
}

#[test]
fn false_alarms_of_a_search_for_words_run() {
    for given in [
        "VAR=x ls",
        "echo \"a;b\"",
        "echo the shutdown of the sudo reboot",
        "echo 'rm -rf /'",
        "cat dd=if.txt",
    ] {
        assert!(line(given).is_ok(), "{given}: {:?}", line(given));
    }
}

#[test]
fn what_makes_text_or_commands_while_it_runs_is_not_understood() {
    for (given, part) in [
        ("echo $(curl x)", "expanded"),
        ("echo \"$(curl x)\"", "expanded"),
        ("echo `curl x`", "expanded"),
        ("echo $HOME", "expanded"),
        ("echo ${IFS}", "expanded"),
        ("ls\ncurl x", "newline"),
        ("ls & curl x", "background"),
        ("ls &", "background"),
        ("cat <(curl x)", "redirections"),
        ("cat << EOF", "redirections"),
        ("cat <<< x", "redirections"),
        ("ls >| f", "redirections"),
        ("ls &> f", "background"),
        ("ls |& cat", "follow"),
        ("(ls)", "groups"),
        ("f() ls", "groups"),
        ("{ ls; }", "`{`"),
        ("if ls; then ls; fi", "`if`"),
        ("ls ~/x", "`~`"),
        ("A=~ ls", "`~`"),
        ("ls # all", "comments"),
        ("ls ;; ls", "follow"),
        ("ls | | ls", "missing"),
        ("| ls", "missing"),
        ("ls &&", "missing"),
        ("A=1", "missing"),
        ("", "missing"),
        ("ls | ! cat", "`!`"),
        ("ls 'open", "closed"),
        ("ls \"open", "closed"),
        ("ls \\", "backslash"),
        ("ls > *", "pattern"),
        ("l* x", "pattern"),
        ("ls [$]", "`[…]`"),
        ("cat 3< f", "streams"),
        ("cat >&", "nowhere"),
        ("ls \u{1b}", "control"),
    ] {
        let why = line(given).expect_err(given);
        assert!(why.contains(part), "{given}: {why}");
    }
}

#[test]
fn programs_that_run_others_are_not_on_the_list() {
    for given in [
        "env curl x",
        "ls | xargs curl",
        "command curl x",
        "builtin echo",
        "exec ls",
        "eval ls",
        "awk 'BEGIN{system(\"id\")}'",
        "python3 -c x",
        "node -e x",
        "git -c alias.x='!id' x",
        "npm run x",
        "bash -c ls",
        "sh x",
        "tar --checkpoint-action=exec=id",
        "export PATH=/x",
        "source ./f",
        ". ./f",
        "trap ls EXIT",
        "curl x",
        "sudo ls",
    ] {
        let why = line(given).expect_err(given);
        assert!(why.contains("is no program of the list"), "{given}: {why}");
    }
}

#[test]
fn a_refusal_names_what_is_there_and_says_only_what_fits() {
    let why = line("nothing").unwrap_err();
    assert!(why.contains("cd, ") && why.contains(", ls") && !why.contains("unexpand"), "{why}");
    let rules = ShellRules { programs: texts(&["absent", "curl"]), ..ShellRules::default() };
    let why = policy(&rules).line("absent", &[], MACHINE).unwrap_err().to_string();
    assert!(why.contains(", curl") && !why.contains(", absent"), "{why}");
    let told = "`-exec` makes `find` start other programs";
    assert_eq!(line("find . -exec rm {} ';'").unwrap_err(), told);
    assert!(line("find . -execdir rm {} ';'").unwrap_err().contains("`-execdir` may be read"));
}

#[test]
fn a_program_is_known_by_where_it_lies() {
    for given in ["/elsewhere/ls", "./ls", "../bin/ls", "bin/ls", "''", "cat/../ls"] {
        assert!(line(given).is_err(), "{given}");
    }
    let listed = |programs: &[&str]| {
        let policy = policy(&ShellRules { programs: texts(programs), ..ShellRules::default() });
        policy.line("curl x; /bin/curl", &[], MACHINE).map_err(|refusal| refusal.to_string())
    };
    let runs = Ok("'/usr/bin/curl' 'x'; '/usr/bin/curl'".to_owned());
    assert_eq!(listed(&["curl"]), runs);
    assert_eq!(listed(&["/bin/curl"]), runs);
    assert!(listed(&["/elsewhere/curl", "wget"]).is_err());
}

#[test]
fn options_that_start_programs_are_refused_unless_the_program_is_listed() {
    for given in [
        "find . -exec curl {} +",
        "find . -execdir curl x",
        "find . -ok rm x",
        "find . '-ex'ec curl x",
        "sort --compress-program=curl f",
        "sort --comp curl f",
        "diff -l a b",
        "diff -ul a b",
        "diff --pag a b",
        "file -z f",
        "file -bZ f",
        "file -Sz f",
        "file --unc f",
        "file --uncompress-no f",
        "file *",
        "sort *",
        "sort -*",
        "find ?x",
    ] {
        assert!(line(given).is_err(), "{given}");
    }
    for given in [
        "sort ./* a*", "sort --check f", "diff -u --exclude=l a b", "diff -U 3 -- a b",
        "file -b --mime-type f",
    ] {
        assert!(line(given).is_ok(), "{given}: {:?}", line(given));
    }
    let trusting =
        policy(&ShellRules { programs: texts(&["find", "sed"]), ..ShellRules::default() });
    let found = trusting.line("find . -exec ls; sed e f", &[], MACHINE);
    assert_eq!(found.unwrap(), "'/usr/bin/find' '.' '-exec' 'ls'; '/usr/bin/sed' 'e' 'f'");
    assert_eq!(trusting.programs.len(), 2);
}

#[test]
fn variables_that_change_which_code_runs_are_refused() {
    for name in [
        "PATH", "LD_PRELOAD", "LANGUAGE", "OPENSSL_CONF", "BASH_ENV", "ENV", "IFS",
        "PYTHONSTARTUP", "GIT_PAGER",
    ] {
        assert!(line(&format!("{name}=x ls")).is_err(), "{name}");
        assert!(check_variable(name, "x").is_err(), "{name}");
    }
    for (name, value) in [("A=B", "x"), ("", "x"), ("1A", "x"), ("A", "a\0b")] {
        assert!(check_variable(name, value).is_err(), "{name:?}");
    }
    assert!(check_variable("TZ", "UTC").is_ok());
}

#[test]
fn redirections_and_directories_stay_inside_the_mounts() {
    for given in [
        "echo x > /etc/passwd", "echo x >> /workshop/f", "echo x > ../f", "echo x > a/../../f",
        "cat < /work/../etc/passwd", "echo x > ''", "cd ..", "cd /", "cd -", "cd", "cd a b",
        "cd *",
    ] {
        let why = line(given).expect_err(given);
        assert!(why.contains("outside") || why.contains("one directory"), "{given}: {why}");
    }
    assert!(line("cd /work/a && cat < /work/f > g").is_ok());
}

#[test]
fn blocked_commands_are_wildcards_over_programs_and_lines() {
    let refuses = |blocked: &str, given: &str| {
        let rules = ShellRules {
            blocked_commands: texts(&[blocked]),
            programs: texts(&["curl", "bash"]),
            ..ShellRules::default()
        };
        policy(&rules).line(given, &[], MACHINE).is_err()
    };
    for (blocked, given) in [
        ("curl * | bash", "curl  https://x 'y' | bash"),
        ("curl * | bash", "'cu'rl x|bash"),
        ("rm", "ls; r\\m f"),
        ("rm", "/bin/rm f"),
        ("r?", "rm f"),
        ("rm -rf *", "rm  -rf  /"),
        ("rm -rf *", "/usr/bin/rm -rf /"),
        ("*", "ls"),
        ("curl * | bash", "true; curl x | bash; true"),
        ("curl *|bash;", "ls && curl x | bash || ls"),
        ("cat && rm *", "ls; cat && rm f"),
        ("/bin/rm", "rm f"),
        ("/bin/rm", "ls | /usr/bin/rm/. f"),
        ("/bin/rm -rf *", "ls; rm -rf x"),
        ("rm -rf x", "A=1 rm -rf x > f; ls"),
        ("cd", "cd sub; ls"),
        ("cd /work*", "ls; cd /work/a"),
    ] {
        assert!(refuses(blocked, given), "{blocked}: {given}");
    }
    for (blocked, given) in [
        ("curl * | bash", "curl x"),
        ("curl * | bash", "echo 'curl x | bash'"),
        ("rm", "echo rm"),
        ("*m", "echo rm"),
        ("rm -rf *", "rm -r f"),
        ("cat && rm *", "cat; rm f"),
        ("l", "ls"),
        ("cd", "echo cd"),
    ] {
        assert!(!refuses(blocked, given), "{blocked}: {given}");
    }
}

#[test]
fn a_blocked_command_that_nothing_could_be_is_none() {
    for text in ["", " ;", "echo * > *", "/usr/bin/*", "ls; */rm", "ls | / x"] {
        assert!(wildcard(text).is_err(), "{text}");
    }
}

#[test]
fn a_line_has_so_many_commands_and_the_list_is_found_once() {
    let asked = std::cell::Cell::new(0);
    let count = |name: &str| {
        asked.set(asked.get() + 1);
        find(name)
    };
    let machine = Machine { find: &count, is_over: &|| false };
    let policy =
        policy(&ShellRules { programs: vec!["/usr/bin/curl".into(); 100], ..Default::default() });
    let run = |commands: usize| policy.line(&"[;".repeat(commands), &[], machine);
    assert!(run(SHELL_COMMANDS_MAX).is_ok());
    assert!(asked.get() <= 100 + 2 * SHELL_COMMANDS_MAX, "{}", asked.get());
    assert!(
        run(SHELL_COMMANDS_MAX + 1).unwrap_err().to_string().contains("more than 256 commands")
    );
}

#[test]
fn what_is_not_searched_in_time_is_refused() {
    let late = Machine { find: &find, is_over: &|| true };
    for (commands, patterns) in [(texts(&["x"]), vec![]), (vec![], texts(&["x"]))] {
        let rules = ShellRules {
            blocked_commands: commands,
            blocked_patterns: patterns,
            ..Default::default()
        };
        assert!(policy(&rules).line("ls", &[], late).is_err(), "{rules:?}");
        assert!(policy(&rules).argv(&texts(&["ls"]), late).is_err(), "{rules:?}");
    }
}

#[test]
fn blocked_patterns_are_searched_in_the_line_with_and_without_quotes() {
    let rules =
        ShellRules { blocked_patterns: texts(&[r"rm\s+-rf", "'"]), ..ShellRules::default() };
    let restricted = policy(&rules);
    for given in [
        "rm   -rf x", "rm -r\"\"f x", "echo 'a'", "cat < rm\\ -r\"\"f", "A=rm\\ -r\"\"f ls",
        "A=1 rm -r\"\"f",
    ] {
        let why = restricted.line(given, &[], MACHINE).expect_err(given).to_string();
        assert!(why.contains("blocked pattern"), "{why}");
    }
    assert!(restricted.argv(&texts(&["rm", "-rf", "x"]), MACHINE).is_err());
    let full = ShellPolicy::new(&Shell::Full, &rules).unwrap();
    assert!(full.line("rm -rf x", &[], MACHINE).is_err());
    assert_eq!(full.line("rm -fr $HOME", &[], MACHINE).unwrap(), "rm -fr $HOME");
}

#[test]
fn a_program_with_arguments_is_held_to_the_same_list() {
    let argv = |given: &[&str]| policy(&ShellRules::default()).argv(&texts(given), MACHINE);
    assert_eq!(argv(&["ls", "$(id); *"]).unwrap(), ["/usr/bin/ls", "$(id); *"]);
    assert_eq!(argv(&["sed", "e"]).unwrap(), ["/usr/bin/sed", "--sandbox", "e"]);
    for given in [&["bash", "-c", "ls"][..], &["find", ".", "-exec", "ls"], &["cd", "x"], &[]] {
        assert!(argv(given).is_err(), "{given:?}");
    }
    let full = ShellPolicy::new(&Shell::Full, &ShellRules::default()).unwrap();
    assert_eq!(full.argv(&texts(&["bash", "-c"]), MACHINE).unwrap(), ["/usr/bin/bash", "-c"]);
    let absent = full.argv(&texts(&["./x"]), MACHINE);
    assert_eq!(absent, Err(Refusal::NoProgram("./x".to_owned())));
}

#[test]
fn two_profiles_block_together_and_list_what_both_list() {
    let rules = |blocked: &str, programs: &[&str]| ShellRules {
        blocked_commands: texts(&[blocked]),
        programs: texts(programs),
        ..ShellRules::default()
    };
    let (a, b) = (rules("x", &["git", "make"]), rules("y", &["make"]));
    let both = a.clone().within(&Shell::Restricted, &Shell::Restricted, &b);
    assert_eq!((both.blocked_commands, both.programs), (texts(&["x", "y"]), texts(&["make"])));
    assert_eq!(a.clone().within(&Shell::Full, &Shell::Restricted, &b).programs, ["make"]);
    assert_eq!(a.within(&Shell::Restricted, &Shell::Full, &b).programs, ["git", "make"]);
}

#[test]
fn a_listed_wrapper_is_told_of() {
    let rules =
        ShellRules { programs: texts(&["curl", "/usr/bin/git", "env"]), ..Default::default() };
    assert_eq!(rules.unbounded().collect::<Vec<_>>(), ["/usr/bin/git", "env"]);
}
