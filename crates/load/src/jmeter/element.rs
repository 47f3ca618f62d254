//! Elements of a JMeter plan. The children of an element are in the `hashTree` that follows it.

use roxmltree::{Document, Node};

/// Element of a plan, with the elements below it.
#[derive(Clone, Debug)]
pub(super) struct Element<'a> {
    /// Tag of the element, such as `ThreadGroup`.
    pub(super) kind: String,
    /// Path of the element by names: `Test Plan/Users/POST /api/test`.
    pub(super) path: String,
    /// True if the element is switched on.
    pub(super) enabled: bool,
    pub(super) children: Vec<Element<'a>>,
    node: Node<'a, 'a>,
}

/// Returns the elements of the first level; `None` if the document is no JMeter plan.
pub(super) fn top<'a>(document: &'a Document<'a>) -> Option<Vec<Element<'a>>> {
    let root = document.root_element();
    let tree = root.children().find(|node| node.has_tag_name("hashTree"))?;
    root.has_tag_name("jmeterTestPlan").then(|| elements(tree, ""))
}

fn elements<'a>(tree: Node<'a, 'a>, above: &str) -> Vec<Element<'a>> {
    let mut found: Vec<Element<'a>> = Vec::new();
    for node in tree.children().filter(Node::is_element) {
        if node.has_tag_name("hashTree") {
            if let Some(last) = found.last_mut() {
                last.children = elements(node, &last.path);
            }
            continue;
        }
        let kind = node.tag_name().name().to_owned();
        let name = node.attribute("testname").filter(|name| !name.is_empty()).unwrap_or(&kind);
        let name: String = name.chars().filter(|letter| !letter.is_control()).take(80).collect();
        let path = if above.is_empty() { name } else { format!("{above}/{name}") };
        let enabled = node.attribute("enabled") != Some("false");
        found.push(Element { kind, path, enabled, children: Vec::new(), node });
    }
    found
}

impl<'a> Element<'a> {
    /// Returns the text of a property with this name, anywhere in the element: `stringProp`, `intProp`, `boolProp`….
    pub(super) fn property(&self, name: &str) -> Option<String> {
        property(self.node, name)
    }

    /// Returns the entries of a `collectionProp` with this name.
    pub(super) fn list(&self, name: &str) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let list = self.node.descendants().find(|node| node.attribute("name") == Some(name));
        let entries = list.into_iter().flat_map(|list| list.children().filter(Node::is_element));
        entries.map(Entry)
    }
}

fn property(node: Node<'_, '_>, name: &str) -> Option<String> {
    let node = node.descendants().find(|node| node.attribute("name") == Some(name))?;
    Some(node.text().unwrap_or_default().to_owned())
}

/// Entry of a list: an element inside a `collectionProp`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a>(Node<'a, 'a>);

impl Entry<'_> {
    /// Returns the text of a property of the entry.
    pub(super) fn property(&self, name: &str) -> Option<String> {
        property(self.0, name)
    }

    /// Returns the text of the entry itself.
    pub(super) fn text(&self) -> String {
        self.0.text().unwrap_or_default().to_owned()
    }
}
