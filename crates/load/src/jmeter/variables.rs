//! Replaces names in a plan by values: of its own variables, and the defaults of properties.

use roxmltree::{Document, Node};

use super::FILE_LEN_MAX;

/// Returns the plan's text with each `${__P(name,default)}` replaced by the default; `None` if there is no such property.
///
/// # Errors
/// If the text becomes longer than a plan may be.
pub(super) fn with_properties(text: &str) -> Result<Option<String>, String> {
    replaced(text, |inside| {
        let (_, default) = inside.strip_prefix("__P(")?.strip_suffix(')')?.split_once(',')?;
        Some(default.to_owned())
    })
}

/// Returns the plan's text with the values of its user-defined variables; `None` if it uses none.
///
/// # Errors
/// As [`with_properties`].
pub(super) fn with_variables(text: &str, document: &Document<'_>) -> Result<Option<String>, String> {
    let variables = variables(document);
    replaced(text, |inside| variables.iter().find(|(name, _)| name == inside).map(|(_, value)| escaped(value)))
}

/// Replaces each `${…}` that has a value. Values are not searched for names again, so that they cannot multiply.
fn replaced(text: &str, value: impl Fn(&str) -> Option<String>) -> Result<Option<String>, String> {
    let (mut out, mut rest, mut is_changed) = (String::with_capacity(text.len()), text, false);
    while let Some(open) = rest.find("${") {
        let (before, after) = rest.split_at(open);
        out.push_str(before);
        let found = after.find('}').and_then(|close| Some((close, value(after[2..close].trim())?)));
        let Some((close, value)) = found else {
            out.push_str("${");
            rest = &after[2..];
            continue;
        };
        out.push_str(&value);
        if out.len() as u64 > FILE_LEN_MAX {
            return Err(format!("with the values of its variables it is longer than {FILE_LEN_MAX} bytes"));
        }
        (rest, is_changed) = (&after[close + 1..], true);
    }
    out.push_str(rest);
    Ok(is_changed.then_some(out))
}

/// Returns the variables of all `Argument` elements that are enabled, except one with the name of a counter.
fn variables(document: &Document<'_>) -> Vec<(String, String)> {
    let property = |node: Node<'_, '_>, name: &str| {
        let found = node.children().find(|child| child.attribute("name") == Some(name))?;
        Some(found.text().unwrap_or_default().to_owned())
    };
    let is_enabled = |node: Node<'_, '_>| node.ancestors().all(|above| above.attribute("enabled") != Some("false"));
    let counters = document.descendants().filter(|node| node.attribute("name") == Some("CounterConfig.name"));
    let counters: Vec<_> = counters.filter_map(|node| node.text()).collect();
    let arguments = document.descendants().filter(|node| node.attribute("elementType") == Some("Argument"));
    let pair = |node| Some((property(node, "Argument.name")?, property(node, "Argument.value")?));
    let all = arguments.filter(|node| is_enabled(*node)).filter_map(pair);
    all.filter(|(name, _)| !counters.contains(&name.as_str())).collect()
}

fn escaped(value: &str) -> String {
    value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
