//! `sha256sum` and `base64`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::commands::{inputs, lossy, whole};
use crate::options::Options;
use crate::shell::Shell;
use crate::stop::{Done, failed};

pub(super) fn sha256sum(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, operands) = Options::all("bct", &[("check", 'c')], arguments)?;
    if options.has('c') {
        return check(shell, &operands);
    }
    inputs(shell, &operands, |shell, name, input| {
        let hex = digest(input)?;
        Ok(shell.line(&format!("{hex}  {name}"))?)
    })
}

fn digest(input: &crate::io::Input) -> Done<String> {
    let mut hasher = Sha256::new();
    loop {
        let chunk = input.chunk()?;
        if chunk.is_empty() {
            return Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
        }
        hasher.update(&chunk);
    }
}

fn check(shell: &mut Shell, operands: &[String]) -> Done {
    let (list, mut status) = whole(shell, operands)?;
    for line in lossy(&list).lines() {
        let Some((expected, name)) = line.split_once(' ') else { continue };
        let name = name.trim_start_matches([' ', '*']);
        let same =
            shell.open(name).ok().is_some_and(|i| digest(&i).is_ok_and(|hex| hex == expected));
        shell.line(&format!("{name}: {}", if same { "OK" } else { "FAILED" }))?;
        status |= i32::from(!same);
    }
    Ok(status)
}

pub(super) fn base64(shell: &mut Shell, arguments: &[String]) -> Done {
    let long = [("decode", 'd'), ("wrap", 'w'), ("ignore-garbage", 'i')];
    let (options, operands) = Options::all("diw:", &long, arguments)?;
    let (bytes, status) = whole(shell, &operands)?;
    if options.has('d') {
        let text: Vec<u8> = bytes.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
        return match STANDARD.decode(&text) {
            Ok(decoded) => {
                shell.out(&decoded)?;
                Ok(status)
            }
            Err(error) => failed(format!("invalid input: {error}")),
        };
    }
    let text = STANDARD.encode(&bytes);
    match options.number('w')?.unwrap_or(76) {
        0 => shell.out(text.as_bytes())?,
        width => {
            for line in text.as_bytes().chunks(width) {
                shell.out(line)?;
                shell.out(b"\n")?;
            }
        }
    }
    Ok(status)
}
