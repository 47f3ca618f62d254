//! Runs several combinations of settings, each tuned or at a fixed load: six fixed cells, or every combination of the axes in a
//! file.

mod cells;
mod file;
mod table;

pub(crate) use self::cells::{CellNames, Cells, six, usual};
pub(crate) use self::file::read;
pub(crate) use self::table::tabbed;
