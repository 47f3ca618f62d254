//! Records: what a middle can do to them, and what it is called.
