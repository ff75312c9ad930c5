"""Operations on accounts: on both our user and AuthMe's player."""
