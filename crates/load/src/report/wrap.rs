//! Wrapping of text for a terminal of 80 columns.

/// Maximum number of columns in a line.
pub(crate) const WIDTH: usize = 80;

/// Appends a line: `first`, then `text`, which wraps below its own beginning. A word wider than a line is cut.
pub(crate) fn put(out: &mut String, first: &str, text: &str) {
    let indent = first.chars().count();
    let room = WIDTH.saturating_sub(indent).max(1);
    out.push_str(first);
    if text.chars().count() <= room {
        out.push_str(text);
        out.push('\n');
        return;
    }
    let mut used = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let letters: Vec<char> = word.chars().collect();
        for (index, part) in letters.chunks(room).enumerate() {
            let gap = usize::from(used > 0 && index == 0);
            if used > 0 && (index > 0 || used + gap + part.len() > room) {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent));
                used = 0;
            } else if gap > 0 {
                out.push(' ');
                used += 1;
            }
            out.extend(part);
            used += part.len();
        }
    }
    out.push('\n');
}

/// Shortens a text to at most `max` characters by cutting its middle.
pub(crate) fn middle(text: &str, max: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= max {
        return text.to_owned();
    }
    let kept = max.saturating_sub(1);
    let (begin, end) = (kept - kept / 2, kept / 2);
    letters[..begin].iter().chain(['…'].iter()).chain(&letters[letters.len() - end..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_at_spaces_and_a_long_word_is_cut() {
        let mut out = String::new();
        put(&mut out, "  name  ", "short");
        put(&mut out, " ! ", &"word ".repeat(40));
        put(&mut out, "first: ", &format!("{} end", "x".repeat(200)));
        assert!(out.starts_with("  name  short\n ! word word"), "{out}");
        assert!(out.lines().all(|line| line.chars().count() <= WIDTH && !line.ends_with(' ')), "{out}");
        assert!(out.contains("\n   word") && out.contains("\n       xxx"), "{out}");
        assert_eq!(out.matches("word").count(), 40);
        assert_eq!(out.matches('x').count(), 200);
    }

    #[test]
    fn a_text_loses_its_middle() {
        assert_eq!(middle("short", 5), "short");
        assert_eq!(middle("http://host/a/very/long/path?end", 13), "http:/…th?end");
        assert_eq!(middle(&"é".repeat(300), 60).chars().count(), 60);
    }
}
