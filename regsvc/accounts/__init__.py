"""Operations on accounts: what touches both our user and AuthMe's player."""
