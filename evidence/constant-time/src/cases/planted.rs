//! Planted leaks: a check that does not report each of them shows nothing.

use std::hint::black_box;

use anyhow::ensure;

use super::{Library, Path};
use crate::memcheck::{declare_bit, secret};

pub(super) const PATHS: &[Path] = &[
    Path::planted("planted-early-exit", early_exit),
    Path::planted("planted-table", table),
    Path::planted("planted-slice-equality", slice_equality),
];

const RESULT: &str = "the result of a planted comparison";

fn early_exit(_: &Library) -> anyhow::Result<()> {
    let (secret, shown) = (secret([7; 32]), black_box([7; 32]));
    ensure!(declare_bit(is_equal_up_to_the_first_difference(&secret, &shown), RESULT));
    Ok(())
}

#[inline(never)]
fn is_equal_up_to_the_first_difference(one: &[u8; 32], other: &[u8; 32]) -> bool {
    for (one, other) in one.iter().zip(other) {
        if black_box(*one) != *other {
            return false;
        }
    }
    true
}

fn table(_: &Library) -> anyhow::Result<()> {
    let secret = secret([7; 1]);
    let looked_up = look_up(&black_box([9; 256]), secret[0]);
    ensure!(declare_bit(looked_up == 9, RESULT));
    Ok(())
}

#[inline(never)]
fn look_up(table: &[u8; 256], index: u8) -> u8 {
    table[usize::from(index)]
}

fn slice_equality(_: &Library) -> anyhow::Result<()> {
    let (secret, shown) = (secret([7; 48]), black_box([7; 48]));
    ensure!(declare_bit(is_equal_by_slices(&secret, &shown), RESULT));
    Ok(())
}

#[inline(never)]
fn is_equal_by_slices(one: &[u8], other: &[u8]) -> bool {
    one == other
}
