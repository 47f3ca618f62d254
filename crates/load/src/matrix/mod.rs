//! Several combinations, each tuned or run at a fixed load: the six that are usual, or any product of axes in a file.

mod cells;
mod file;
mod table;

pub(crate) use self::cells::{Cells, Naming, six, usual};
pub(crate) use self::file::read;
pub(crate) use self::table::tabbed;
