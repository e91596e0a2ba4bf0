"""The mean of real columns: public numbers to budget shares and cells, released counts to clips, intervals and statuses."""
