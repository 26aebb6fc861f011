"""From one domain to another (Guerraoui et al. 2017): what links films to books, and a profile of
books made from rated films; numpy alone, so that a device makes its own."""
