//! Raw locks around other raw locks.

/// Methods of a trait of `lock_api` by those of the lock inside.
macro_rules! by_inner {
    ($trait:ident: $($kind:ident $method:ident $(($limit:ident: $type:ty))?,)*) => {
        $($crate::inner::by_inner!(@$kind $trait::$method $(($limit: $type))?);)*
    };
    (@takes $trait:ident::$method:ident) => {
        #[inline]
        fn $method(&self) -> $crate::GuardMarker {
            lock_api::$trait::$method(&self.0)
        }
    };
    (@tries $trait:ident::$method:ident $(($limit:ident: $type:ty))?) => {
        #[inline]
        fn $method(&self $(, $limit: $type)?) -> Option<$crate::GuardMarker> {
            lock_api::$trait::$method(&self.0 $(, $limit)?)
        }
    };
    (@asks $trait:ident::$method:ident) => {
        #[inline]
        fn $method(&self) -> bool {
            lock_api::$trait::$method(&self.0)
        }
    };
    (@releases $trait:ident::$method:ident) => {
        #[inline]
        unsafe fn $method(&self, guard: $crate::GuardMarker) {
            // SAFETY: the caller's promise.
            unsafe { lock_api::$trait::$method(&self.0, guard) }
        }
    };
    (@changes $trait:ident::$method:ident) => {
        #[inline]
        unsafe fn $method(&self, guard: $crate::GuardMarker) -> $crate::GuardMarker {
            // SAFETY: the caller's promise.
            unsafe { lock_api::$trait::$method(&self.0, guard) }
        }
    };
    (@upgrades $trait:ident::$method:ident $(($limit:ident: $type:ty))?) => {
        #[inline]
        unsafe fn $method(
            &self,
            guard: $crate::GuardMarker
            $(, $limit: $type)?
        ) -> Result<$crate::GuardMarker, $crate::GuardMarker> {
            // SAFETY: the caller's promise.
            unsafe { lock_api::$trait::$method(&self.0, guard $(, $limit)?) }
        }
    };
}

pub(crate) use by_inner;
