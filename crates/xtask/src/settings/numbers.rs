//! Numbers in types: literals, constants of the product, and expressions of them.

use anyhow::{Context, bail};
use syn::{Expr, GenericArgument, Item, Lit, Type};

use super::read::{Sources, name_and_arguments};

impl Sources {
    /// Returns the value of a number in `<>`.
    pub(super) fn number(&self, file: &str, argument: &GenericArgument) -> anyhow::Result<u64> {
        match argument {
            GenericArgument::Const(expr) => self.value(file, expr),
            GenericArgument::Type(Type::Path(path)) => self.constant(file, &path.path),
            _ => bail!("expected a number"),
        }
    }

    /// Returns the value of an expression of numbers and constants.
    fn value(&self, file: &str, expr: &Expr) -> anyhow::Result<u64> {
        match expr {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(number) => Ok(number.base10_parse()?),
                _ => bail!("expected a whole number"),
            },
            Expr::Paren(inner) => self.value(file, &inner.expr),
            Expr::Cast(inner) => self.value(file, &inner.expr),
            Expr::Block(block) => match block.block.stmts.as_slice() {
                [syn::Stmt::Expr(expr, None)] => self.value(file, expr),
                _ => bail!("expected a single expression"),
            },
            Expr::Binary(binary) => {
                let (left, right) = (self.value(file, &binary.left)?, self.value(file, &binary.right)?);
                let result = match binary.op {
                    syn::BinOp::Add(_) => left.checked_add(right),
                    syn::BinOp::Sub(_) => left.checked_sub(right),
                    syn::BinOp::Mul(_) => left.checked_mul(right),
                    _ => bail!("expected +, - or *"),
                };
                result.context("the value is not from 0 to 2^64 - 1")
            }
            Expr::Path(path) => self.constant(file, &path.path),
            Expr::Field(field) => self.field_of_constant(file, field),
            _ => bail!("expected numbers, +, - and *, constants, or fields of TYPE::DEFAULT"),
        }
    }

    fn constant(&self, file: &str, path: &syn::Path) -> anyhow::Result<u64> {
        let name = path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        let first = path.segments.first().map(|segment| segment.ident.to_string()).unwrap_or_default();
        // An associated constant of an integer type; any other is looked up as a constant of that name.
        if let Some(most) = most(&first).filter(|_| name == "MAX" && path.segments.len() == 2) {
            return Ok(most);
        }
        let (file, expr) = self.find(file, &["const"], &name, |item| match item {
            Item::Const(item) if item.ident == name => Some((*item.expr).clone()),
            _ => None,
        })?;
        self.value(&file, &expr)
    }

    /// Returns the value of `TYPE::DEFAULT.field`, if an `impl TYPE` has that constant as a struct.
    fn field_of_constant(&self, file: &str, field: &syn::ExprField) -> anyhow::Result<u64> {
        let (Expr::Path(base), syn::Member::Named(member)) = (&*field.base, &field.member) else {
            bail!("expected TYPE::DEFAULT.field")
        };
        let owner = base.path.segments.first().map(|segment| segment.ident.to_string()).unwrap_or_default();
        let (file, expr) = self.find(file, &["impl"], &owner, |item| {
            let Item::Impl(block) = item else { return None };
            let is_owner = name_and_arguments(&block.self_ty).is_ok_and(|(name, _)| name == owner);
            let mut consts = block.items.iter().filter_map(|item| match item {
                syn::ImplItem::Const(item) if item.ident == "DEFAULT" => Some(&item.expr),
                _ => None,
            });
            let Expr::Struct(value) = consts.next().filter(|_| is_owner)? else { return None };
            let mut fields = value.fields.iter();
            let is_it = |field: &&syn::FieldValue| matches!(&field.member, syn::Member::Named(name) if name == member);
            fields.find(is_it).map(|field| field.expr.clone())
        })?;
        self.value(&file, &expr)
    }
}

/// Returns the largest number of a type.
pub(super) fn most(number: &str) -> Option<u64> {
    match number {
        "u8" => Some(u8::MAX.into()),
        "u32" => Some(u32::MAX.into()),
        "u64" | "usize" => Some(u64::MAX),
        _ => None,
    }
}
