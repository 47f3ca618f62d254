//! Strangers' text made harmless for the form it is put in. What a server said is in reports, and whoever reads them has
//! a terminal, a browser or a spreadsheet that would do as it says.

/// Characters of a stranger's text that are shown.
const SHOWN_MAX: usize = 400;

/// One line without control characters, marks that turn the direction of writing, or more than 400 characters.
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

/// Characters that turn the direction of writing or do not show: a text could look like another.
fn turns(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fffe}'..='\u{ffff}')
}

/// For HTML and XML, as text or in an attribute with quotes.
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

/// For Markdown, as code, which neither links nor mentions nor marks up; in a cell of a table too.
pub(crate) fn markdown(text: &str) -> String {
    let text = line(text);
    let (mut longest, mut run) = (0, 0);
    for char in text.chars() {
        run = if char == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    // The blanks are taken away again by Markdown; without them a text could not begin with a backtick.
    format!("{fence} {} {fence}", text.replace('|', "\\|"))
}

/// For a cell of CSV: in quotes, and never a formula.
pub(crate) fn csv(text: &str) -> String {
    let text = line(text).replace('"', "\"\"");
    let formula = text.starts_with(['=', '+', '-', '@']);
    if formula { format!("\"'{text}\"") } else { format!("\"{text}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_place() {
        let hostile = "<b a='1'>\u{1b}[2J\r\nx|``y` & \u{202e}\u{0}";
        assert_eq!(line(hostile), "<b a='1'>\u{fffd}[2J  x|``y` & \u{fffd}\u{fffd}");
        assert_eq!(markup(hostile), "&lt;b a=&#39;1&#39;&gt;\u{fffd}[2J  x|``y` &amp; \u{fffd}\u{fffd}");
        assert_eq!(markdown("a|``b"), "``` a\\|``b ```");
        assert_eq!(csv("=1+\"x\""), "\"'=1+\"\"x\"\"\"");
        assert_eq!(line(&"é".repeat(500)).chars().count(), 401);
    }
}
