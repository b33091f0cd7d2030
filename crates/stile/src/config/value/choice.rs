//! A key that takes one of a few names.

/// Defines an enum whose variants are written as the given names.
///
/// The names are stated once: reading, showing and the reference page all take them from here.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        pub enum $choice:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $name:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $choice {
            $( $(#[$variant_meta])* #[serde(rename = $name)] $variant, )+
        }

        impl $choice {
            /// Every name, in the order of the variants.
            pub const NAMES: &'static [&'static str] = &[$( $name, )+];

            /// The name as it is written in the configuration.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )+
                }
            }
        }

        impl std::fmt::Display for $choice {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.name())
            }
        }
    };
}

pub(crate) use choice;
