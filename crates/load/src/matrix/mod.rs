//! Several combinations, each tuned or run at a fixed load: the six that are usual, or any product of axes in a file.

mod cells;
mod file;
mod table;

pub use self::cells::{Cell, Cells, Naming, six, usual};
pub use self::file::{Swept, parse, read};
pub use self::table::tabbed;
