//! `jq`, as the crates of jaq have it.
//!
//! The clock is looked at between inputs and between outputs. A filter that goes on without
//! either is the sandbox's to end.

use jaq_core::data::JustLut;
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, unwrap_valr};
use jaq_json::{Val, read, write};

use crate::commands::{chomped, lines, lossy, whole};
use crate::options::Options;
use crate::shell::Shell;
use crate::stop::{Done, Fault, usage};

const KNOWN: &str = "rcnsSejRaMC";

/// What would look at the world past the shell: [`FORMATS`] and [`run`] have the clock's.
const ABSENT: [&str; 6] =
    ["now", "localtime", "strflocaltime", "mktime_local", "env", "input_filename"];

/// Formats that jaq leaves to its program, and the local time, which is UTC.
const FORMATS: &str = r#"
def @csv: map(if . == null then "" elif isstring then "\"" + (split("\"") | join("\"\"")) + "\"" else tostring end) | join(",");
def @tsv: map(if . == null then "" else tostring | split("\\") | join("\\\\") | split("\t") | join("\\t") | split("\n") | join("\\n") end) | join("\t");
def localtime: gmtime;
def strflocaltime($format): strftime($format);
"#;

pub(super) fn jq(shell: &mut Shell, arguments: &[String]) -> Done {
    let long = [
        ("raw-output", 'r'),
        ("compact-output", 'c'),
        ("null-input", 'n'),
        ("slurp", 's'),
        ("sort-keys", 'S'),
        ("exit-status", 'e'),
        ("join-output", 'j'),
        ("raw-input", 'R'),
        ("tab", 'T'),
        ("ascii-output", 'a'),
        ("monochrome-output", 'M'),
    ];
    let (names, values, rest) = bound(arguments)?;
    let (options, mut operands) = Options::all(&format!("{KNOWN}T"), &long, &rest)?;
    if operands.is_empty() {
        return usage("a filter is missing");
    }
    let filter = operands.remove(0);
    let inputs = inputs(shell, &options, &operands)?;
    let pretty = write::Pp {
        indent: (!options.has('c')).then(|| if options.has('T') { "\t" } else { "  " }.to_owned()),
        sort_keys: options.has('S'),
        sep_space: !options.has('c'),
        ..write::Pp::default()
    };
    run(shell, &filter, (&names, values), inputs, &options, &pretty)
}

/// Takes out `--arg NAME TEXT` and `--argjson NAME JSON`.
fn bound(arguments: &[String]) -> Done<(Vec<String>, Vec<Val>, Vec<String>)> {
    let (mut names, mut values, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = arguments;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first.as_str(), after) {
            (kind @ ("--arg" | "--argjson"), [name, value, after @ ..]) => {
                names.push(format!("${name}"));
                values.push(match kind {
                    "--arg" => Val::from(value.clone()),
                    _ => json(value.as_bytes())?,
                });
                rest = after;
            }
            _ => others.push(first.clone()),
        }
    }
    Ok((names, values, others))
}

fn json(bytes: &[u8]) -> Done<Val> {
    read::parse_single(bytes).or_else(|error| usage(format!("no JSON: {error}")))
}

fn inputs(shell: &mut Shell, options: &Options, operands: &[String]) -> Done<Vec<Val>> {
    if options.has('n') {
        return Ok(vec![Val::Null]);
    }
    let (bytes, status) = whole(shell, operands)?;
    if status != 0 {
        return usage("an input could not be read");
    }
    if options.has('R') {
        return Ok(match options.has('s') {
            true => vec![Val::from(lossy(&bytes))],
            false => lines(&bytes).map(|line| Val::from(lossy(chomped(line)))).collect(),
        });
    }
    let all: Result<Vec<Val>, _> = read::parse_many(&bytes).collect();
    match all {
        Ok(all) if options.has('s') => Ok(vec![all.into_iter().collect()]),
        Ok(all) => Ok(all),
        Err(error) => usage(format!("no JSON: {error}")),
    }
}

fn run(
    shell: &mut Shell,
    filter: &str,
    (names, values): (&[String], Vec<Val>),
    inputs: Vec<Val>,
    options: &Options,
    pretty: &write::Pp,
) -> Done {
    let arena = Arena::default();
    let formats = load::parse(FORMATS, |parser| parser.defs()).unwrap_or_default();
    let definitions =
        jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).chain(formats);
    let functions = jaq_core::funs::<JustLut<Val>>()
        .chain(jaq_std::funs())
        .chain(jaq_json::funs())
        .filter(|(name, ..)| !ABSENT.contains(name));
    let timed = format!("def now: {}; {filter}", shell.clock.wall().as_secs_f64());
    let file = File { code: timed.as_str(), path: () };
    let Ok(modules) = Loader::new(definitions).load(&arena, file) else {
        return Err(Fault::Status(3, format!("{filter:?} is no filter of jq")));
    };
    let compiler = Compiler::default().with_funs(functions);
    let compiled =
        match compiler.with_global_vars(names.iter().map(String::as_str)).compile(modules) {
            Ok(compiled) => compiled,
            Err(errors) => {
                let all = errors.iter().flat_map(|(_, errors)| errors);
                let all: Vec<String> =
                    all.map(|(name, kind)| format!("no {} {name} here", kind.as_str())).collect();
                return Err(Fault::Status(3, all.join(", ")));
            }
        };
    let mut status = 0;
    let mut last = None;
    for input in inputs {
        shell.tick()?;
        let context = Ctx::<JustLut<Val>>::new(&compiled.lut, Vars::new(values.clone()));
        for output in compiled.id.run((context, input)).map(unwrap_valr) {
            shell.tick()?;
            match output {
                Ok(value) => {
                    show(shell, &value, options, pretty)?;
                    last = Some(!matches!(value, Val::Null | Val::Bool(false)));
                }
                Err(error) => {
                    shell.complain(&format!("error: {error}"))?;
                    status = 5;
                    break;
                }
            }
        }
    }
    match last {
        None if options.has('e') && status == 0 => Ok(4),
        Some(false) if options.has('e') && status == 0 => Ok(1),
        _ => Ok(status),
    }
}

fn show(shell: &mut Shell, value: &Val, options: &Options, pretty: &write::Pp) -> Done<()> {
    let mut bytes = Vec::new();
    match value {
        Val::TStr(text) if options.has('r') || options.has('j') => bytes.extend_from_slice(text),
        value => {
            if write::write(&mut bytes, pretty, 0, value).is_err() {
                return usage("a value has no JSON form");
            }
        }
    }
    if !options.has('j') {
        bytes.push(b'\n');
    }
    Ok(shell.out(&bytes)?)
}
