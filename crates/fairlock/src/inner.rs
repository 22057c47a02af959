//! Raw locks around other raw locks.

/// Methods of a trait of `lock_api` by those of the lock inside.
macro_rules! by_inner {
    ($trait:ident: $($kind:ident $method:ident $(($limit:ident: $type:ty))?,)*) => {
        $($crate::inner::by_inner!(@$kind $trait::$method $(($limit: $type))?);)*
    };
    (@takes $trait:ident::$method:ident) => {
        #[inline]
        #[cfg_attr(feature = "deadlock_detection", track_caller)]
        fn $method(&self) {
            lock_api::$trait::$method(&self.0);
        }
    };
    (@tries $trait:ident::$method:ident $(($limit:ident: $type:ty))?) => {
        #[inline]
        #[cfg_attr(feature = "deadlock_detection", track_caller)]
        fn $method(&self $(, $limit: $type)?) -> bool {
            lock_api::$trait::$method(&self.0 $(, $limit)?)
        }
    };
    // Releases the lock, or changes how it is held.
    (@leaves $trait:ident::$method:ident) => {
        #[inline]
        unsafe fn $method(&self) {
            // SAFETY: the caller's promise.
            unsafe { lock_api::$trait::$method(&self.0) }
        }
    };
    (@upgrades $trait:ident::$method:ident $(($limit:ident: $type:ty))?) => {
        #[inline]
        unsafe fn $method(&self $(, $limit: $type)?) -> bool {
            // SAFETY: the caller's promise.
            unsafe { lock_api::$trait::$method(&self.0 $(, $limit)?) }
        }
    };
}

pub(crate) use by_inner;
