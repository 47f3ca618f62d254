//! Translates JMeter's functions in texts to this program's templates.

/// Text with its functions translated.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translation {
    /// Text with this program's templates in it.
    pub(super) text: String,
    /// True if the text holds a template.
    pub(super) is_template: bool,
}

/// Translates `${__UUID()}`, `${__time()}`, `${__counter(FALSE)}` and the counter's variable to templates.
///
/// # Errors
/// Any other `${…}`, which would be sent as it is written, and one that is not closed.
pub(super) fn fill(text: &str, counter: Option<&str>) -> Result<Translation, String> {
    let mut filled = Translation { text: String::new(), is_template: false };
    let mut rest = text;
    while let Some(open) = rest.find("${") {
        filled.text.push_str(&rest[..open]);
        let Some(close) = rest[open..].find('}').map(|close| open + close) else {
            return Err("${ without }".into());
        };
        let inside = rest[open + 2..close].trim();
        let template = match inside {
            "__UUID()" | "__UUID" => "{{uuid}}",
            "__time()" | "__time" | "__time(,)" => "{{timestamp}}",
            "__counter(FALSE)" | "__counter(FALSE,)" => "{{counter}}",
            name if counter == Some(name) => "{{counter}}",
            other => {
                let other: String = other.chars().take(60).collect();
                return Err(format!(
                    "${{{other}}} is not supported: use a variable of the plan, __UUID, __time or the counter"
                ));
            }
        };
        filled.text.push_str(template);
        filled.is_template = true;
        rest = &rest[close + 1..];
    }
    filled.text.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_become_templates_and_unknown_ones_are_refused() {
        let filled = fill(r#"{"id":"a-${counter}","u":"${__UUID()}","t":${__time()}}"#, Some("counter")).unwrap();
        assert_eq!(filled.text, r#"{"id":"a-{{counter}}","u":"{{uuid}}","t":{{timestamp}}}"#);
        assert!(filled.is_template);
        assert_eq!(fill("plain", None), Ok(Translation { text: "plain".into(), is_template: false }));
        assert!(fill("${__groovy(1)}", None).unwrap_err().contains("__groovy(1)"));
        assert!(fill("${counter}", None).is_err());
        assert!(fill("${open", None).is_err());
    }
}
