//! Checks the templates in flags.

/// Names that are valid between `{{` and `}}`.
const NAMES: [&str; 4] = ["uuid", "counter", "timestamp", "random"];

/// Checks that each `{{` is closed and each name is known. The error names the character, counted from 1.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let mut at = 0;
    while let Some(open) = text[at..].find("{{").map(|found| at + found) {
        let place = text[..open].chars().count() + 1;
        let Some(close) = text[open..].find("}}").map(|found| open + found) else {
            return Err(format!("at character {place}: {{{{ without }}}}"));
        };
        let name = text[open + 2..close].trim();
        if !NAMES.contains(&name) {
            let name: String = name.chars().take(40).collect();
            return Err(format!(
                "at character {place}: there is no {{{{{name}}}}}; expected one of {}",
                NAMES.join(", ")
            ));
        }
        at = close + 2;
    }
    Ok(())
}
