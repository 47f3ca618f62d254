//! TODO(issue 3)
/// What a process does while Redis is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// It refuses.
    #[default]
    FailClosed,
    /// It decides by its own memory.
    Local,
}
