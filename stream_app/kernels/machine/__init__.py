"""Operations of the processor: SIMD, prefetch, wide integers, hashing, dirty-page maps."""
