//! What no derive writes: values of an enum's variants as a table, and a `Debug` of a few fields.

/// Gives an enum a function that returns what stands beside a variant in the table; with `ALL`, its variants
/// in the order of the table too.
#[doc(hidden)]
#[macro_export]
macro_rules! table {
    ($(#[$doc:meta])* $all:vis ALL, $vis:vis $of:ident::$name:ident: $value:ty {
        $($variant:ident: $is:expr),+ $(,)?
    }) => {
        impl $of {
            /// Each of them.
            $all const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];
        }
        $crate::table! { $(#[$doc])* $vis $of::$name: $value { $($variant: $is),+ } }
    };
    ($(#[$doc:meta])* $vis:vis $of:ident::$name:ident: $value:ty {
        $($variant:ident: $is:expr),+ $(,)?
    }) => {
        impl $of {
            $(#[$doc])*
            $vis const fn $name(self) -> $value {
                match self { $(Self::$variant => $is),+ }
            }
        }
    };
}

/// Lets `Debug` show these fields only: the others are secret, or say nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! shows {
    ($of:ident $(<$life:lifetime>)? { $($field:ident),* }) => {
        impl std::fmt::Debug for $of $(<$life>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($of))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}
