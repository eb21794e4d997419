def pay(purse: list[int], amount: int) -> int:
    # guard[enough]: nobody pays what is not there
    # mutant[enough/removed]:
    #   - if sum(purse) < amount:
    #   -     raise ValueError(f"{amount} asked, {sum(purse)} there")
    #   + pass
    # mutant[enough/spelled]: decoy
    #   - if sum(purse) < amount:
    #   + if amount > sum(purse):
    if sum(purse) < amount:
        raise ValueError(f"{amount} asked, {sum(purse)} there")
    return sum(purse) - amount
