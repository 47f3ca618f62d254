//! The rules of the codec, and the parts of a message that break them.

use core::fmt;

/// A message that breaks a rule of RFC 9292, or a bound. It carries no byte of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {rule}")]
pub struct BhttpError {
    /// The part that is at fault.
    pub part: Part,
    /// The rule that the part breaks.
    pub rule: Rule,
}

impl BhttpError {
    pub(super) fn new(part: Part, rule: Rule) -> Self {
        BhttpError { part, rule }
    }

    /// Returns the status for the sender of a request: 413 for content over its bound, 431 for fields over theirs, else 400.
    pub fn status(&self) -> u16 {
        match (self.part, self.rule) {
            (Part::Content, Rule::TooLong) => 413,
            (Part::Section | Part::Trailers | Part::FieldName | Part::FieldValue, Rule::TooLong | Rule::TooMany) => 431,
            _ => 400,
        }
    }
}

/// Declares an enum whose rows have a text.
macro_rules! texts {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$row_doc:meta])* $row:ident = $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$row_doc])* $row,)*
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $($name::$row => $text,)*
                })
            }
        }
    };
}

texts! {
    /// The parts of a message.
    pub enum Part {
        /// The number that says which kind of message follows (section 3.3).
        Framing = "framing indicator";
        /// The method of a request.
        Method = "method";
        /// The scheme of a request.
        Scheme = "scheme";
        /// The authority of a request.
        Authority = "authority";
        /// The path and query of a request.
        Path = "path";
        /// The status of an answer, final or informational.
        Status = "status";
        /// A header section, final or informational (section 3.6).
        Section = "header section";
        /// The trailer section (section 3.6).
        Trailers = "trailer section";
        /// The name of a field.
        FieldName = "field name";
        /// The value of a field.
        FieldValue = "field value";
        /// The content of the message.
        Content = "content";
        /// The field `content-length` of a request.
        ContentLength = "content-length";
        /// The zeros behind a message (section 3.8).
        Padding = "padding";
    }
}

texts! {
    /// The rules that a part can break.
    pub enum Rule {
        /// The framing indicator is none of 0 to 3.
        Unknown = "not one of 0 to 3";
        /// A request stands where an answer is expected, or the reverse.
        WrongKind = "of the other kind of message";
        /// The message ends within the part.
        Truncated = "the message ends within it";
        /// A length goes past the end of the section.
        Overrun = "a length goes past the end of its section";
        /// The part is longer than its bound.
        TooLong = "longer than its bound";
        /// There are more parts of the kind than the bound allows.
        TooMany = "more than its bound";
        /// The part is empty and must not be.
        Empty = "empty";
        /// The part has a byte that it must not have.
        Characters = "a byte that it must not have";
        /// The value begins or ends with a blank.
        OuterBlank = "a blank at its begin or end";
        /// The field repeats control data, or is a pseudo-field behind a field or in trailers.
        PseudoField = "a pseudo-field where none may be";
        /// The field stands more than once.
        Repeated = "stands more than once";
        /// The number differs from the length of the content.
        Differs = "not the length of the content";
        /// The status is outside 100 to 599.
        OutOfRange = "outside 100 to 599";
        /// A byte of the padding is not zero.
        NotZero = "a byte that is not zero";
        /// A writer was called in the wrong order, or with content of another length than the given one.
        Order = "written out of order";
    }
}
