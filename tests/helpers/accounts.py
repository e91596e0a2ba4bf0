"""Accounts that can be charged without further setup."""

from fastpubpriv.release.account import Account


def opened(budget, draws=10, **options):
    account = Account("test", budget, draws=draws, **options)
    account.open()
    return account
