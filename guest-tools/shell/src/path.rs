//! Paths as scripts write them, made plain. `/` is the granted folder, and `..` stops there.

/// The plain path of `name`, seen from `folder`; `.` is the granted folder itself.
pub(crate) fn plain(folder: &str, name: &str) -> String {
    let start = if name.starts_with('/') { "" } else { folder };
    let mut steps: Vec<&str> = Vec::new();
    for step in start.split('/').chain(name.split('/')) {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    if steps.is_empty() { ".".to_owned() } else { steps.join("/") }
}

/// `name` inside `folder`, as a script would write it.
pub(crate) fn join(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        _ if folder.ends_with('/') => format!("{folder}{name}"),
        _ => format!("{folder}/{name}"),
    }
}

/// The last step, as `basename` has it.
pub(crate) fn base(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    match path.rsplit_once('/') {
        _ if path.is_empty() => "/",
        Some((_, last)) => last,
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leaves_the_folder() {
        assert_eq!(plain("a/b", "../c"), "a/c");
        assert_eq!(plain("a", "../../../etc/passwd"), "etc/passwd");
        assert_eq!(plain("a", "/./x//y/"), "x/y");
        assert_eq!(plain("a", ".."), ".");
    }
}
