//! Enumerations whose variants have names, which flags, matrix files and documents use.

/// Enumeration with a name for each variant.
pub(crate) trait VariantNames: Copy + 'static {
    /// Returns all variants, in order of declaration.
    fn all() -> &'static [Self];
    /// Returns the name of this variant.
    fn named(self) -> &'static str;
}

/// Declares an enumeration as `Variant = "name"`, with a list of its variants. Serde reads and writes each variant by its name.
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $Type:ident { $($(#[$doc:meta])* $Variant:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        $vis enum $Type {
            $($(#[$doc])* #[serde(rename = $name)] $Variant,)+
        }

        #[allow(dead_code, reason = "not every enumeration is listed, or shown")]
        impl $Type {
            /// All variants, in order of declaration.
            $vis const ALL: [$Type; [$($name),+].len()] = [$($Type::$Variant),+];

            /// Returns the name of this variant in flags and documents.
            $vis fn name(self) -> &'static str {
                match self { $($Type::$Variant => $name,)+ }
            }
        }

        impl $crate::named::VariantNames for $Type {
            fn all() -> &'static [Self] {
                &$Type::ALL
            }

            fn named(self) -> &'static str {
                self.name()
            }
        }
    };
}

pub(crate) use named;
