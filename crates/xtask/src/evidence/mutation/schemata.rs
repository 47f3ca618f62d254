//! Mutant schemata: one source text that contains all mutants of a file, each behind a switch that is read at run time. One
//! build then serves all mutants.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::Context;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::mutant::{Genre, Mutant};

/// Path of the switch in a mutated crate: true for the one mutant that is on.
const SWITCH: &str = "crate::mutation_switch::is_on";

/// The module of the switch, appended to the root of a mutated crate. With a trace file instead of a mutant, all mutants are
/// off, and the file gets the number of each mutant that the process reaches.
pub(super) const SWITCH_MODULE: &str = r#"
#[allow(missing_docs, clippy::all)]
pub(crate) mod mutation_switch {
    extern crate std;
    use std::io::Write as _;
    static ON: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    static REACHED: std::sync::Mutex<std::collections::BTreeSet<u32>> =
        std::sync::Mutex::new(std::collections::BTreeSet::new());
    static TRACED: [std::sync::atomic::AtomicBool; 32768] =
        [const { std::sync::atomic::AtomicBool::new(false) }; 32768];
    pub(crate) fn is_on(mutant: u32) -> bool {
        let on = *ON.get_or_init(|| {
            let set = std::env::var("SEALWAY_MUTANT").ok();
            set.and_then(|set| set.parse().ok()).unwrap_or(0)
        });
        if on == u32::MAX {
            trace(mutant);
        }
        on == mutant
    }
    fn trace(mutant: u32) {
        if TRACED[mutant as usize].swap(true, std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        let mut reached = REACHED.lock().unwrap();
        if reached.insert(mutant) {
            let path = std::env::var("SEALWAY_MUTANT_TRACE").unwrap();
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
            file.write_all(std::format!("{mutant}\n").as_bytes()).unwrap();
        }
    }
}
"#;

/// A file with its mutants built in.
pub(super) struct Schemata {
    pub(super) text: String,
    /// Ranges of `text` that belong to mutants, an outer range before the ranges within it.
    regions: Vec<(Range<usize>, Vec<u32>)>,
    /// Mutants that a switch cannot select: those of constants, which are evaluated in the compiler, and of `&&` before `let`.
    pub(super) left_out: Vec<u32>,
}

impl Schemata {
    /// Builds the mutants into a source text.
    ///
    /// # Errors
    /// The text does not parse.
    pub(super) fn new(source: &str, mutants: &[(u32, &Mutant)]) -> anyhow::Result<Schemata> {
        let file = syn::parse_file(source).context("does not parse")?;
        let mut finder = Finder::default();
        finder.visit_file(&file);
        let mut edits: BTreeMap<(usize, bool, Reverse<usize>), Edit> = BTreeMap::new();
        let mut left_out = Vec::new();
        for (number, mutant) in mutants {
            let Some(place) = finder.places.get(&(mutant.genre, mutant.start)) else {
                left_out.push(*number);
                continue;
            };
            let (range, insertion, text) = place.edit(source, mutant);
            // An insertion stands before an expression that starts at the same place, an outer expression before an inner one.
            let key = (range.start, !insertion, Reverse(range.end));
            let edit = edits.entry(key).or_insert_with(|| Edit { range, insertion, variants: Vec::new() });
            edit.variants.push((*number, text));
        }
        let edits: Vec<Edit> = edits.into_values().collect();
        let mut schemata = Schemata { text: String::new(), regions: Vec::new(), left_out };
        schemata.render(source, 0..source.len(), &edits);
        Ok(schemata)
    }

    fn render(&mut self, source: &str, range: Range<usize>, edits: &[Edit]) {
        let mut done = range.start;
        let mut next = 0;
        while let Some(edit) = edits.get(next) {
            self.text.push_str(&source[done..edit.range.start]);
            done = edit.range.start;
            next += 1;
            let start = self.text.len();
            let region = self.regions.len();
            self.regions.push((start..start, edit.variants.iter().map(|(number, _)| *number).collect()));
            if edit.insertion {
                for (number, text) in &edit.variants {
                    self.variant(*number, text);
                }
            } else {
                self.text.push('(');
                for (number, text) in &edit.variants {
                    self.variant(*number, &format!("if {SWITCH}({number}) {{ ({text}) }} else "));
                }
                self.text.push_str("{ (");
                let inner = edits[next..].iter().take_while(|inner| inner.range.start < edit.range.end).count();
                self.render(source, edit.range.clone(), &edits[next..next + inner]);
                self.text.push_str(") })");
                next += inner;
                done = edit.range.end;
            }
            self.regions[region].0.end = self.text.len();
        }
        self.text.push_str(&source[done..range.end]);
    }

    fn variant(&mut self, number: u32, text: &str) {
        let start = self.text.len();
        self.text.push_str(text);
        self.regions.push((start..self.text.len(), vec![number]));
    }

    /// Returns the mutants that a compiler's message at this range of the text is about: those of the smallest region.
    pub(super) fn at(&self, range: &Range<usize>) -> &[u32] {
        let around = self.regions.iter().filter(|(region, _)| region.start <= range.start && range.end <= region.end);
        around.min_by_key(|(region, _)| region.len()).map_or(&[], |(_, numbers)| numbers)
    }

    /// Returns the mutant that deletes the last deleted arm of the match whose operand is at this range of the text. An arm behind a
    /// switch counts as none when the compiler looks for missing patterns.
    pub(super) fn last_arm(&self, range: &Range<usize>) -> Option<u32> {
        let mut arms = Arms { operand: range.clone(), ends: Vec::new() };
        arms.visit_file(&syn::parse_file(&self.text).ok()?);
        arms.ends.iter().rev().find_map(|guard| self.at(guard).first().copied())
    }

    /// Returns the mutants that return at once from the innermost function around this range of the text: where it says `impl Trait`, the
    /// compiler takes the first type that is returned for the right one, and reports the original.
    pub(super) fn of_function(&self, range: &Range<usize>) -> &[u32] {
        let mut bodies = Bodies { around: range.clone(), first: None };
        let Ok(file) = syn::parse_file(&self.text) else { return &[] };
        bodies.visit_file(&file);
        bodies.first.map_or(&[], |at| self.at(&(at..at + 1)))
    }
}

/// Finds the first statement of the innermost function around a range.
struct Bodies {
    around: Range<usize>,
    first: Option<usize>,
}

impl<'ast> Visit<'ast> for Bodies {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.look(&item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.look(&item.block);
        visit::visit_impl_item_fn(self, item);
    }
}

impl Bodies {
    fn look(&mut self, block: &syn::Block) {
        let body = block.span().byte_range();
        if body.start <= self.around.start && self.around.end <= body.end {
            self.first = block.stmts.first().map(|first| first.span().byte_range().start);
        }
    }
}

/// Finds the guards of the match with an operand.
struct Arms {
    operand: Range<usize>,
    ends: Vec<Range<usize>>,
}

impl<'ast> Visit<'ast> for Arms {
    fn visit_expr_match(&mut self, expression: &'ast syn::ExprMatch) {
        if expression.expr.span().byte_range() == self.operand {
            let guards = expression.arms.iter().filter_map(|arm| arm.guard.as_ref());
            self.ends = guards.map(|(_, condition)| condition.span().byte_range()).collect();
        }
        visit::visit_expr_match(self, expression);
    }
}

/// Returns the text of a crate's root without the modules that are not named. Lines stay where they are.
///
/// # Errors
/// The text does not parse.
pub(super) fn with_modules(source: &str, modules: &[&str]) -> anyhow::Result<String> {
    let mut text = source.to_owned();
    for item in syn::parse_file(source).context("does not parse")?.items {
        let syn::Item::Mod(module) = item else { continue };
        if module.content.is_none() && !modules.iter().any(|name| module.ident == name) {
            let range = module.span().byte_range();
            let blank = source[range.clone()].replace(|c| c != '\n', " ");
            text.replace_range(range, &blank);
        }
    }
    Ok(text)
}

/// A change of a source text: text inserted before a place, or a choice between variants of an expression.
struct Edit {
    range: Range<usize>,
    insertion: bool,
    variants: Vec<(u32, String)>,
}

/// Code that a mutant changes.
enum Place {
    /// The start of a function's body.
    Body(usize),
    /// A binary expression, and its operator.
    Binary(Range<usize>, Range<usize>),
    /// A unary expression, and its operator.
    Unary(Range<usize>, Range<usize>),
    /// The end of an arm's pattern.
    Arm(usize),
    /// The condition of an arm.
    Guard(Range<usize>),
    /// A struct expression, and a field of it with its comma.
    Field(Range<usize>, Range<usize>),
}

impl Place {
    /// Returns the range to edit, whether text is inserted at its start, and the text of the mutant.
    fn edit(&self, source: &str, mutant: &Mutant) -> (Range<usize>, bool, String) {
        let Mutant { number, replacement, .. } = mutant;
        let replaced = |outer: &Range<usize>, inner: &Range<usize>| {
            let [before, after] = [&source[outer.start..inner.start], &source[inner.end..outer.end]];
            (outer.clone(), false, format!("{before}{replacement}{after}"))
        };
        match self {
            Place::Body(at) => (*at..*at, true, format!("if {SWITCH}({number}) {{ return {replacement}; }} ")),
            Place::Binary(expression, part) | Place::Unary(expression, part) | Place::Field(expression, part) => {
                replaced(expression, part)
            }
            Place::Arm(at) => (*at..*at, true, format!(" if !{SWITCH}({number})")),
            Place::Guard(condition) => replaced(condition, condition),
        }
    }
}

/// Finds the places that mutants can change, by the line and the column where cargo-mutants says that they start.
#[derive(Default)]
struct Finder {
    places: BTreeMap<(Genre, (usize, usize)), Place>,
    /// Depth of constants around the code.
    constant: usize,
}

impl Finder {
    fn add(&mut self, genre: Genre, at: proc_macro2::Span, place: Place) {
        if self.constant == 0 {
            let start = at.start();
            self.places.insert((genre, (start.line, start.column + 1)), place);
        }
    }

    fn within_constant(&mut self, is_constant: bool, visit: impl FnOnce(&mut Self)) {
        self.constant += usize::from(is_constant);
        visit(self);
        self.constant -= usize::from(is_constant);
    }

    fn body(&mut self, block: &syn::Block) {
        if let Some(first) = block.stmts.first() {
            self.add(Genre::FnValue, first.span(), Place::Body(first.span().byte_range().start));
        }
    }
}

/// Tests if a condition of a chain is `let`: such a chain cannot stand in parentheses.
fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) if matches!(binary.op, syn::BinOp::And(_)) => {
            has_let(&binary.left) || has_let(&binary.right)
        }
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.within_constant(item.sig.constness.is_some(), |finder| {
            finder.body(&item.block);
            visit::visit_item_fn(finder, item);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.within_constant(item.sig.constness.is_some(), |finder| {
            finder.body(&item.block);
            visit::visit_impl_item_fn(finder, item);
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.body(block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.within_constant(true, |finder| visit::visit_item_const(finder, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.within_constant(true, |finder| visit::visit_impl_item_const(finder, item));
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.within_constant(true, |finder| visit::visit_trait_item_const(finder, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.within_constant(true, |finder| visit::visit_item_static(finder, item));
    }

    fn visit_expr_const(&mut self, block: &'ast syn::ExprConst) {
        self.within_constant(true, |finder| visit::visit_expr_const(finder, block));
    }

    fn visit_type(&mut self, of: &'ast syn::Type) {
        self.within_constant(true, |finder| visit::visit_type(finder, of));
    }

    fn visit_generic_argument(&mut self, argument: &'ast syn::GenericArgument) {
        self.within_constant(true, |finder| visit::visit_generic_argument(finder, argument));
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.within_constant(true, |finder| visit::visit_variant(finder, variant));
    }

    fn visit_pat(&mut self, pattern: &'ast syn::Pat) {
        self.within_constant(true, |finder| visit::visit_pat(finder, pattern));
    }

    fn visit_expr_repeat(&mut self, array: &'ast syn::ExprRepeat) {
        self.visit_expr(&array.expr);
        self.within_constant(true, |finder| finder.visit_expr(&array.len));
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        if !has_let(&binary.left) && !has_let(&binary.right) {
            let operator = binary.op.span();
            let place = Place::Binary(binary.span().byte_range(), operator.byte_range());
            self.add(Genre::BinaryOperator, operator, place);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let operator = unary.op.span();
        self.add(Genre::UnaryOperator, operator, Place::Unary(unary.span().byte_range(), operator.byte_range()));
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        match &arm.guard {
            Some((_, condition)) if !has_let(condition) => {
                let place = Place::Guard(condition.span().byte_range());
                self.add(Genre::MatchArmGuard, condition.span(), place);
            }
            Some(_) => {}
            None => self.add(Genre::MatchArm, arm.span(), Place::Arm(arm.pat.span().byte_range().end)),
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expression: &'ast syn::ExprStruct) {
        for pair in expression.fields.pairs() {
            let field = pair.value().span().byte_range();
            let end = pair.punct().map_or(field.end, |comma| comma.span().byte_range().end);
            let place = Place::Field(expression.span().byte_range(), field.start..end);
            self.add(Genre::StructField, pair.value().span(), place);
        }
        visit::visit_expr_struct(self, expression);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(number: u32, genre: Genre, start: (usize, usize), replacement: &str) -> Mutant {
        let (key, file, replacement) = (number.to_string(), "src/lib.rs".to_owned(), replacement.to_owned());
        Mutant { number, key, file, start, replacement, genre }
    }

    /// Builds the mutants in; the switch is `S` in the text.
    fn built(source: &str, mutants: &[Mutant]) -> (String, Schemata) {
        let numbered: Vec<(u32, &Mutant)> = mutants.iter().map(|mutant| (mutant.number, mutant)).collect();
        let schemata = Schemata::new(source, &numbered).unwrap();
        syn::parse_file(&schemata.text).unwrap();
        (schemata.text.replace(SWITCH, "S"), schemata)
    }

    #[test]
    fn each_mutant_stands_behind_its_switch_and_the_original_behind_all() {
        let source = "fn f(a: u8, b: u8) -> bool { a + b == 3 }";
        let mutants = [
            mutant(1, Genre::FnValue, (1, 30), "true"),
            mutant(2, Genre::BinaryOperator, (1, 36), "!="),
            mutant(3, Genre::BinaryOperator, (1, 32), "-"),
        ];
        let body = "if S(1) { return true; } (if S(2) { (a + b != 3) } else { ((if S(3) { (a - b) } else { (a + b) }) == 3) })";
        assert_eq!(built(source, &mutants).0, format!("fn f(a: u8, b: u8) -> bool {{ {body} }}"));
    }

    #[test]
    fn arms_guards_fields_and_negations_have_switches() {
        let arms = "fn f() { match x { A => 1, B if y => 2, _ => 3 } }";
        let mutants = [
            mutant(1, Genre::MatchArm, (1, 20), ""),
            mutant(2, Genre::MatchArmGuard, (1, 33), "true"),
            mutant(3, Genre::MatchArmGuard, (1, 33), "false"),
        ];
        let guard = "(if S(2) { (true) } else if S(3) { (false) } else { (y) })";
        let expected = format!("fn f() {{ match x {{ A if !S(1) => 1, B if {guard} => 2, _ => 3 }} }}");
        assert_eq!(built(arms, &mutants).0, expected);
        let field = built("fn f() { T { a: 1, ..t } }", &[mutant(1, Genre::StructField, (1, 14), "")]).0;
        assert_eq!(field, "fn f() { (if S(1) { (T {  ..t }) } else { (T { a: 1, ..t }) }) }");
        let negation = built("fn f() { !x }", &[mutant(1, Genre::UnaryOperator, (1, 10), "")]).0;
        assert_eq!(negation, "fn f() { (if S(1) { (x) } else { (!x) }) }");
    }

    #[test]
    fn constants_and_conditions_with_let_are_left_out() {
        for (source, start) in [
            ("const A: u8 = 1 + 2;", (1, 17)),
            ("const fn f() -> u8 { 1 + 2 }", (1, 24)),
            ("fn f() { [0; 1 + 2] }", (1, 16)),
            ("fn f() { if let A = a && b { } }", (1, 23)),
        ] {
            let (text, schemata) = built(source, &[mutant(7, Genre::BinaryOperator, start, "-")]);
            assert_eq!((text.as_str(), schemata.left_out), (source, vec![7]));
        }
    }

    #[test]
    fn a_match_that_is_not_exhaustive_is_of_its_last_arm_that_is_deleted() {
        let source = "fn f() { match x { _ if y => 1, A => match z { C => 1 }, B => 2 } }";
        let mutants = [
            mutant(1, Genre::MatchArm, (1, 33), ""),
            mutant(2, Genre::MatchArm, (1, 58), ""),
            mutant(3, Genre::MatchArm, (1, 48), ""),
        ];
        let last = |mutants: &[Mutant], operand: &str| {
            let schemata = built(source, mutants).1;
            let start = schemata.text.find(operand).unwrap() + "match ".len();
            schemata.last_arm(&(start..start + 1))
        };
        assert_eq!((last(&mutants, "match x"), last(&mutants, "match z")), (Some(2), Some(3)));
        assert_eq!((last(&mutants[..1], "match x"), last(&mutants[..1], "match z")), (Some(1), None));
    }

    #[test]
    fn an_error_of_the_original_is_of_what_returns_before_it() {
        let source = "fn f() -> impl Iterator { fn g() { d } a == b }\nfn h() { c }";
        let mutants = [mutant(1, Genre::FnValue, (1, 27), "x()"), mutant(2, Genre::FnValue, (2, 10), "y()")];
        let schemata = built(source, &mutants).1;
        let of = |part: &str| {
            let start = schemata.text.find(part).unwrap();
            schemata.of_function(&(start..start + part.len())).to_vec()
        };
        assert_eq!((of("a == b"), of("c }"), of("d }")), (vec![1], vec![2], vec![]));
    }

    #[test]
    fn a_root_without_some_modules_keeps_its_lines() {
        let root = "#![no_std]\n#[cfg(a)]\npub mod a;\nmod b;\npub use b::B;\nmod c {}\n";
        let expected = "#![no_std]\n         \n          \nmod b;\npub use b::B;\nmod c {}\n";
        assert_eq!(with_modules(root, &["b"]).unwrap(), expected);
    }

    #[test]
    fn an_error_is_of_the_smallest_mutant_around_it() {
        let source = "fn f() { a + b == c }";
        let mutants = [mutant(1, Genre::BinaryOperator, (1, 16), "!="), mutant(2, Genre::BinaryOperator, (1, 12), "-")];
        let schemata = built(source, &mutants).1;
        let at = |part: &str| {
            let start = schemata.text.find(part).unwrap();
            schemata.at(&(start..start + part.len())).to_vec()
        };
        assert_eq!((at("b != c"), at("a - b"), at("== c"), at("fn")), (vec![1], vec![2], vec![1], vec![]));
    }
}
