//! Escaping of untrusted text for each form. Reports contain text of a server, and the reader's terminal, browser or
//! spreadsheet would act on it.

/// Maximum number of characters of untrusted text shown.
const SHOWN_MAX: usize = 400;

/// Reduces text to one line of at most 400 characters, without control characters and direction marks.
pub(crate) fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(SHOWN_MAX * 4));
    for (index, char) in text.chars().enumerate() {
        if index == SHOWN_MAX {
            out.push('…');
            break;
        }
        out.push(match char {
            '\r' | '\n' | '\t' => ' ',
            char if char.is_control() || turns(char) => '\u{fffd}',
            char => char,
        });
    }
    out
}

/// Returns whether a character is invisible or turns the direction of writing, which makes one text look like another.
fn turns(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fffe}'..='\u{ffff}')
}

/// Escapes text for HTML and XML, as content or as a quoted attribute.
pub(crate) fn markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in line(text).chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char => out.push(char),
        }
    }
    out
}

/// Escapes text for Markdown as code, which neither links, mentions nor marks up, also in a table cell.
pub(crate) fn markdown(text: &str) -> String {
    let text = line(text);
    let (mut longest, mut run) = (0, 0);
    for char in text.chars() {
        run = if char == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    // Markdown removes the blanks; without them a text could not begin with a backtick.
    format!("{fence} {} {fence}", text.replace('|', "\\|"))
}

/// Escapes text for a CSV cell: quoted, and never a formula.
pub(crate) fn csv(text: &str) -> String {
    let text = line(text).replace('"', "\"\"");
    let formula = text.starts_with(['=', '+', '-', '@']);
    if formula { format!("\"'{text}\"") } else { format!("\"{text}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_text_cannot_leave_its_context() {
        let hostile = "<b a='1'>\u{1b}[2J\r\nx|``y` & \u{202e}\u{0}";
        assert_eq!(line(hostile), "<b a='1'>\u{fffd}[2J  x|``y` & \u{fffd}\u{fffd}");
        assert_eq!(markup(hostile), "&lt;b a=&#39;1&#39;&gt;\u{fffd}[2J  x|``y` &amp; \u{fffd}\u{fffd}");
        assert_eq!(markdown("a|``b"), "``` a\\|``b ```");
        assert_eq!(csv("=1+\"x\""), "\"'=1+\"\"x\"\"\"");
        assert_eq!(line(&"é".repeat(500)).chars().count(), 401);
    }
}
